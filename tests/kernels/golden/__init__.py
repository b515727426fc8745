"""Golden vectors of the numerics contract, and the scalar oracle that makes them."""
