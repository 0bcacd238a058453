"""Many runs that answer one question: grids, sweeps, their cost, and what they decide."""
