package keystore

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/filelock"
	"github.com/counterfoil/counterfoil/internal/vault"
)

// OpenMasters reads the vault's master keys from a file of their own, one a line, oldest first, as [vault.ParseKeys] takes them: for
// replicas that share a database and are handed the file. Where there is none it makes one with a new key; made says so, and
// somebody should be told: without a copy of the file, what is sealed is lost with it. A file that is damaged, or that others
// can read, is an error, and never replaced. Its directory must be the user's own.
func OpenMasters(path string, random io.Reader) (keys []vault.Key, made bool, err error) {
	path, err = filepath.Abs(path)
	if err != nil || random == nil {
		return nil, false, fail(counterfoil.CodeInvalidInput, "a key file needs a path and randomness", err)
	}
	dir, name := filepath.Split(path)
	if err := checkDir(filepath.Clean(dir)); err != nil {
		return nil, false, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	l, err := filelock.Wait(ctx, path+".lock")
	if err != nil {
		return nil, false, fail(counterfoil.CodeUnavailable, "the key file is locked by another process", err)
	}
	defer func() { err = errors.Join(err, l.Release()) }()
	b, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		b, made = make([]byte, vault.MasterSize), true
		if _, err := io.ReadFull(random, b); err != nil {
			return nil, false, fail(counterfoil.CodeUnavailable, "there is no randomness", err)
		}
		b = base64.StdEncoding.AppendEncode(nil, b)
		err = writeFile(dir, name, append(b, '\n'))
	}
	if err != nil {
		return nil, false, err
	}
	if keys, err = vault.ParseKeys(string(b)); err != nil {
		return nil, false, damaged(name, err)
	}
	return keys, made, nil
}

// RotateVault adds a vault key, which seals from the next start on, and returns its id. Every other process of the state must be
// started again before that, or it can't open what the new key has sealed. Older keys open what they have sealed, until
// [vault.Vault.Rewrap] has sealed it again and [Keystore.DropVaultKey] takes them away.
func (k *Keystore) RotateVault() (string, error) {
	random := make([]byte, 4+vault.MasterSize)
	if _, err := io.ReadFull(k.Rand, random); err != nil {
		return "", fail(counterfoil.CodeUnavailable, "there is no randomness", err)
	}
	added := namedKey{ID: "v-" + hex.EncodeToString(random[:4]), Key: random[4:]}
	return added.ID, k.changePrivate(func(p *private) error {
		if slices.ContainsFunc(p.Vault, func(n namedKey) bool { return n.ID == added.ID }) {
			return fail(counterfoil.CodeUnavailable, "the new key got an old one's id; try again", nil)
		}
		p.Vault = append(p.Vault, added)
		return nil
	})
}

// DropVaultKey takes an older vault key out of the file, for good. [vault.Vault.Retire] must have said before that nothing is
// sealed under it.
func (k *Keystore) DropVaultKey(id string) error {
	return k.changePrivate(func(p *private) error {
		i := slices.IndexFunc(p.Vault, func(n namedKey) bool { return n.ID == id })
		if i < 0 || i == len(p.Vault)-1 {
			return fail(counterfoil.CodeInvalidInput, "there is no such older vault key", nil)
		}
		p.Vault = slices.Delete(p.Vault, i, i+1)
		return nil
	})
}

func (k *Keystore) changePrivate(change func(*private) error) error {
	return k.locked(func() error {
		p, err := k.readPrivate()
		if errors.Is(err, fs.ErrNotExist) {
			return damaged(privateFile, err)
		}
		if err == nil {
			err = change(&p)
		}
		if err != nil {
			return err
		}
		return k.write(privateFile, p)
	})
}
