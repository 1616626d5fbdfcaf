"""CAPVCO: Cluster API infrastructure provider for VCO clouds."""
