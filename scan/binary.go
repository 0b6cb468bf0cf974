package scan

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
	"strings"
	"unicode/utf8"
)

// The grain at which binary data is looked through for text: of blockSize bytes, at least blockLeast belong to letters or
// are spaces. Random bytes come to about 18, text of which six bytes in ten were overwritten to about 36.
const (
	blockSize  = 64
	blockLeast = 27
)

// dense returns the stretches of s, which isn't text, that hold some, with what stands beside them. What is decoded at
// the wrong alignment, and what never was text, gives next to nothing, so that there is little to look at.
func dense(s string) string {
	s = strings.ReplaceAll(s, "\x00", "") // UTF-16 and UTF-32 without their padding
	if len(s) <= 2*blockSize {
		if letters(s)*blockSize < blockLeast*len(s) {
			return ""
		}
		return s
	}
	var out []byte
	last := -1 // the last block in out
	for n := 0; n*blockSize < len(s); n++ {
		if letters(s[n*blockSize:min(len(s), (n+1)*blockSize)]) < blockLeast {
			continue
		}
		if last >= 0 && n-1 > last+1 {
			out = append(out, "\n\n"...)
		}
		from := max(n-1, last+1, 0) * blockSize
		to := min((n+2)*blockSize, len(s))
		if from < to {
			out = append(out, s[from:to]...)
		}
		last = n + 1
	}
	return string(out)
}

// letters counts the bytes of s that belong to letters or are spaces. Whatever is well-formed beyond ASCII counts.
func letters(s string) int {
	n := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c|0x20-'a' < 26 || c == ' ':
			n++
		case c >= 0xC2 && c < 0xF5 && i+1 < len(s) && s[i+1]&0xC0 == 0x80:
			if _, size := utf8.DecodeRuneInString(s[i:]); size > 1 {
				n += size
				i += size - 1
			}
		}
	}
	return n
}

// packed names the kind of stream that s begins like, "" if none.
func packed(s string) string {
	switch {
	case strings.HasPrefix(s, "\x1f\x8b"):
		return "gzip"
	case len(s) > 2 && s[0] == 0x78 && (int(s[0])<<8|int(s[1]))%31 == 0:
		return "zlib"
	}
	return ""
}

// inflate returns what s unpacks to, if it is a gzip or zlib stream, and which.
func (r *run) inflate(s string) ([]byte, string, bool) {
	by := packed(s)
	var rd io.Reader
	var err error
	switch by {
	case "gzip":
		rd, err = gzip.NewReader(strings.NewReader(s))
	case "zlib":
		rd, err = zlib.NewReader(strings.NewReader(s))
	}
	if rd == nil || err != nil {
		return nil, "", false
	}
	var buf bytes.Buffer
	// What came out before an error counts: readers differ in how much of a broken stream they take.
	n, _ := io.Copy(&buf, io.LimitReader(rd, int64(r.budget)+1))
	if n > int64(r.budget) {
		r.stop(UnscannableWork)
		return nil, "", false
	}
	return buf.Bytes(), by, n >= minPayload
}
