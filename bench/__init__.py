"""The benchmark: what a machine costs the provider, the API server and the cloud."""
