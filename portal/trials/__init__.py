"""What `portal kernels test` found of each kernel: values, the record that the site keeps, and what a session shows."""
