"""What a user writes: types, conditions, and the CRDs made from them."""
