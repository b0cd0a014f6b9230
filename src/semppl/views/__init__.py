"""From an image to its views: geometry on uint8, photometric work in batches on the device."""
