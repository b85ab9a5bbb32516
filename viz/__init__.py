"""Looking at datasets and models: pictures, videos, metrics, reports."""
