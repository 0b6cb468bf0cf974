package scan

// minCodes is how many bytes written as numbers make a stretch that is decoded.
const minCodes = 10

// A codeReader collects bytes written one after another in one notation.
type codeReader struct {
	by         string
	buf        []byte // nibbles or bytes
	start, end int
	open       bool
}

// codes decodes bytes written as hexadecimal, binary and decimal numbers, with or without separators and prefixes.
func (r *run) codes(l *layer) {
	s := l.text
	hex := codeReader{by: "hex"}
	bin := codeReader{by: "binary"}
	dec := codeReader{by: "decimal"}
	check := checkEvery
	for i := 0; i < len(s); {
		if i >= check {
			if !r.alive() {
				return
			}
			check = i + checkEvery
		}
		if !alnum(s[i]) {
			i++
			continue
		}
		from, to, next := number(s, i)
		tok := s[from:to]
		r.take(l, &hex, tok, from, hexCodes)
		r.take(l, &bin, tok, from, binCodes)
		r.take(l, &dec, tok, from, decCodes)
		i = next
	}
	r.flushHex(l, &hex)
	r.flushCodes(l, &bin)
	r.flushCodes(l, &dec)
}

// number finds the digits of the word at i: the whole word, without a 0x or x before it, or a long run of hexadecimal digits
// in it. It returns them and where the word ends.
func number(s string, i int) (from, to, next int) {
	next = i
	row, best, bestEnd := 0, 0, 0
	for next < len(s) && next-i < checkEvery && alnum(s[next]) { // what is left of a longer one is read as the next
		if nibble(s[next]) < 16 {
			row++
		} else {
			row = 0
		}
		next++
		if row > best {
			best, bestEnd = row, next
		}
	}
	from = i
	if next-from > 2 && s[from] == '0' && s[from+1]|0x20 == 'x' {
		from += 2
	} else if next-from > 1 && s[from]|0x20 == 'x' {
		from++
	}
	if best >= next-from {
		return from, next, next
	}
	if best >= 2*minCodes {
		return bestEnd - best, bestEnd, next
	}
	return i, i, next // not a number
}

func nibble(c byte) byte {
	switch {
	case c-'0' < 10:
		return c - '0'
	case c|0x20-'a' < 6:
		return c | 0x20 - 'a' + 10
	}
	return 255
}

// take adds a number to c if it fits its notation, and ends the open stretch if not, or if too much stands in between.
func (r *run) take(l *layer, c *codeReader, tok string, at int, parse func([]byte, string) ([]byte, bool)) {
	const most = 6 // characters between two bytes
	buf, ok := parse(c.buf, tok)
	if c.open && (!ok || at-c.end > most) {
		r.flush(l, c)
		buf, ok = parse(c.buf, tok)
	}
	if !ok {
		return
	}
	if !c.open {
		c.open, c.start = true, at
	}
	c.buf, c.end = buf, at+len(tok)
}

func (r *run) flush(l *layer, c *codeReader) {
	if c.by == "hex" {
		r.flushHex(l, c)
		return
	}
	r.flushCodes(l, c)
}

func (r *run) flushCodes(l *layer, c *codeReader) {
	if c.open && len(c.buf) >= minCodes {
		r.child(l, c.buf, c.by, c.start, c.end)
	}
	c.buf, c.open = c.buf[:0], false
}

// flushHex decodes nibbles; a digit that doesn't belong to them may stand before them.
func (r *run) flushHex(l *layer, c *codeReader) {
	if c.open && len(c.buf) >= 2*minCodes {
		out := pairs(c.buf)
		if !printable(string(out)) {
			r.child(l, pairs(c.buf[1:]), c.by, c.start, c.end)
		}
		r.child(l, out, c.by, c.start, c.end)
	}
	c.buf, c.open = c.buf[:0], false
}

func pairs(nibbles []byte) []byte {
	out := make([]byte, 0, len(nibbles)/2)
	for i := 0; i+1 < len(nibbles); i += 2 {
		out = append(out, nibbles[i]<<4|nibbles[i+1])
	}
	return out
}

// hexCodes appends the nibbles of a number with an even count of digits, or a long one.
func hexCodes(dst []byte, tok string) ([]byte, bool) {
	if len(tok) == 0 || len(tok)%2 != 0 && len(tok) < 2*minCodes {
		return dst, false
	}
	for i := range len(tok) {
		dst = append(dst, nibble(tok[i]))
	}
	return dst, true
}

func binCodes(dst []byte, tok string) ([]byte, bool) {
	if len(tok) == 0 || len(tok)%8 != 0 {
		return dst, false
	}
	for i := range len(tok) {
		if tok[i] != '0' && tok[i] != '1' {
			return dst, false
		}
	}
	for i := 0; i < len(tok); i += 8 {
		var b byte
		for _, c := range []byte(tok[i : i+8]) {
			b = b<<1 | c&1
		}
		dst = append(dst, b)
	}
	return dst, true
}

func decCodes(dst []byte, tok string) ([]byte, bool) {
	if len(tok) == 0 || len(tok) > 3 {
		return dst, false
	}
	n := 0
	for _, c := range []byte(tok) {
		if c < '0' || c > '9' {
			return dst, false
		}
		n = n*10 + int(c-'0')
	}
	if n > 255 {
		return dst, false
	}
	return append(dst, byte(n)), true // at most 255
}
