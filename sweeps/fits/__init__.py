"""How the constants of a law are found, and with what interval. One method a file."""
