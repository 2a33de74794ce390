"""What datapipes share: files and streams, decoders, snapshots."""
