"""A VCO cloud that runs on one machine, held to the vendor's API description."""
