"""`make mutants`: rules changed by a tool (mutmut), to see which changes no test notices. See docs/mutants.md."""
