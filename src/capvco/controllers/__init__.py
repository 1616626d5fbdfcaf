"""When something happens: gates, order of services, status, finalizers."""
