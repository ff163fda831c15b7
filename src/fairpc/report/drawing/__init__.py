"""Pictures as inline SVG: pure functions of numbers and names, coloured by the page's style."""
