package show

// Latin is latin, for the test of its tables.
func Latin(r rune) rune { return latin(r) }
