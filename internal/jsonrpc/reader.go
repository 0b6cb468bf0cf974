package jsonrpc

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
)

// A Reader splits a stream into lines.
type Reader struct {
	br  *bufio.Reader
	max int
}

// NewReader returns a Reader of lines of at most maxBytes bytes, their end not counted. Zero means DefaultMaxBytes.
func NewReader(r io.Reader, maxBytes int) *Reader {
	if maxBytes <= 0 {
		maxBytes = DefaultMaxBytes
	}
	return &Reader{br: bufio.NewReaderSize(r, 64<<10), max: maxBytes}
}

// Next returns the next line that is not blank, without its end (LF or CRLF); the line belongs to the caller. A
// *TooLongError costs one line: the next call reads on. io.EOF is the end after a whole line, io.ErrUnexpectedEOF the
// end within one; what there was of that line is dropped, since nobody can know that it was all.
func (r *Reader) Next() ([]byte, error) {
	for {
		line, err := r.line()
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimLeft(line, " \t\r")) > 0 {
			return line, nil
		}
	}
}

func (r *Reader) line() ([]byte, error) {
	var line []byte
	var over *sniffer
	for {
		part, err := r.br.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			if errors.Is(err, io.EOF) && (over != nil || len(line)+len(part) > 0) {
				return nil, io.ErrUnexpectedEOF
			}
			return nil, err
		}
		switch {
		case over != nil:
			over.feed(part)
		case len(line)+len(part) > r.max+len("\r\n"):
			over = &sniffer{}
			over.feed(line)
			over.feed(part)
			line = nil
		default:
			line = append(slices.Grow(line, len(part)), part...)
		}
		if err != nil { // the line goes on
			continue
		}
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if over == nil && len(line) > r.max {
			over = &sniffer{}
			over.feed(line)
		}
		if over != nil {
			return nil, &TooLongError{Envelope: over.envelope()}
		}
		return line, nil
	}
}
