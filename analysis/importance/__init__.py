"""Which settings mattered: effects, fANOVA, partial dependence."""
