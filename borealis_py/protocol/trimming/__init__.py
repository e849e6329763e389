"""How far topics may be deleted, from what replicas say that they may still read (R16). Pure."""
