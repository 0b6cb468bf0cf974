package sqlite

// Remote names the file systems that are refused.
func Remote(magic int64) string { return remote(magic) }
