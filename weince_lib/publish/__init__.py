"""What readers see: claims with verdicts, notebooks, the PDF, the site."""
