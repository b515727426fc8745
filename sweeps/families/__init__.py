"""Model families: each a file that says what the models are and holds their ladder of sizes."""
