"""Real guests: images that are made here, and the machines that boot them."""
