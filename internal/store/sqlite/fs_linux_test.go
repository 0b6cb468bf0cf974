package sqlite_test

import (
	"testing"

	"github.com/counterfoil/counterfoil/internal/store/sqlite"
)

func TestOpen_remote(t *testing.T) {
	t.Parallel()
	for magic, refused := range map[int64]bool{
		0x6969: true, 0x517b: true, 0xfe534d42: true, 0xff534d42: true, -11317950: true, 0x65735546: true, 0x01021997: true,
		0xef53: false, 0x58465342: false, 0x9123683e: false, 0x01021994: false, 0x794c7630: false,
	} {
		if got := sqlite.Remote(magic); (got != "") != refused {
			t.Errorf("%#x: %q", magic, got)
		}
	}
}
