"""What is done in the cloud, step by step, each step idempotent."""
