"""What boots: user data and the scripts in it."""
