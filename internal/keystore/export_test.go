package keystore

// EnrolCheaply is Enrol, or Replace, with a key derivation that costs nothing.
func (k *Keystore) EnrolCheaply(passphrase []byte, owner string, replace bool) error {
	return k.enrol(passphrase, owner, nil, replace, kdf{Name: "argon2id", Time: 1, Memory: 8, Threads: 1})
}
