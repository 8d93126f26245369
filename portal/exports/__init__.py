"""What *Save and Export Notebook As* makes: in a process of its own."""
