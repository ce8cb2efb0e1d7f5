"""What `sojourn doctor` looks at: this machine, the server, the workers, the app."""
