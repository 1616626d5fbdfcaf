"""The controller core: typed access to a Kubernetes API, caches, queues, election, health."""
