"""The process of one ingress index: one session for each foreign topic of an app, driven by one loop."""
