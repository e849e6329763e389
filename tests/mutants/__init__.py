"""`make mutants`: rules changed by mutmut, to see which changes no test notices. See docs/evidence/mutants.md."""
