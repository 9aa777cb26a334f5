"""Ray and the machines that it runs on."""
