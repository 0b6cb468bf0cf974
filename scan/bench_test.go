package scan_test

import (
	"testing"

	"github.com/counterfoil/counterfoil/scan"
)

func BenchmarkScan(b *testing.B) {
	const prose = "The quick brown fox jumps over the lazy dog, and then some words follow about tools and the user. "
	for name, text := range map[string]string{
		"prose 2K":         fill(prose, 2<<10),
		"prose 1M":         fill(prose, 1<<20),
		"cyrillic 1M":      fill("Пожалуйста, проверьте отчёт перед встречей. ", 1<<20),
		"base64 prose 1M":  fill(b64(fill(prose, 3<<18)), 1<<20),
		"nested base64 1M": nested(1 << 20),
		"ab 1M":            fill("ab", 1<<20),
		"word 1M":          fill("a", 1<<20) + "!",
		"markers 1M":       fill("<|", 1<<20),
		"near misses 1M":   fill("ignore the previous nice little words in the instruction ", 1<<20),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				shared.Scan(b.Context(), text)
			}
		})
	}
}

func BenchmarkScanValue(b *testing.B) {
	doc := []byte(`{"path":"/srv/app/config.yaml","mode":"write","content":"` + fill("The kettle stands on the left shelf. ", 1<<10) +
		`","options":{"create":true,"owner":"alice"}}`)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		shared.ScanValue(b.Context(), doc)
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		_ = scan.New()
	}
}
