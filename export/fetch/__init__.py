"""Models from the network: names become files here, looked at before they are fetched."""
