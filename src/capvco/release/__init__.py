"""What ships: manifests, roles, cluster templates."""
