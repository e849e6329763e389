"""Sources of an app as their topics and the settings topic have them: which have ended, and what is set of them."""
