package counterfoil

import "context"

// A Pending is a document that waits for one signature, which is made elsewhere: a passkey signs in a browser, in another
// request than the one that shows the document. PrepareApproval, PrepareCoSign, PrepareDecision and PrepareGrant make it,
// of the same arguments each time: a host need not keep it between the two requests, only the arguments.
type Pending[T any] struct {
	env    *envelope // with the signatures that it has already
	role   Role
	key    PublicKey
	finish func(*envelope) *T
}

// PendingApproval is an approval that waits for a signature.
type PendingApproval = Pending[Approval]

// Message returns what is to be signed. Its Challenge is what a passkey is given.
func (p *Pending[T]) Message() Message { return p.env.message(p.role) }

// Payload returns a copy of the document's canonical bytes.
func (p *Pending[T]) Payload() []byte { return append([]byte(nil), p.env.payload...) }

// Attach adds the passkey's assertion. It fails with CodeSignatureInvalid unless the key that the document was prepared for
// made the assertion for this very document.
func (p *Pending[T]) Attach(a Assertion) (*T, error) {
	if p.key.Passkey == nil || p.key.Role != p.role {
		return nil, fail(CodeSignatureInvalid, "this key is not a passkey that signs documents of that kind")
	}
	sig, err := FixedSignature(a.Signature)
	if err != nil {
		return nil, err
	}
	s := signature{key: p.key.ID, sig: sig, authData: clone(a.AuthenticatorData), clientData: clone(a.ClientDataJSON)}
	if err := p.key.verify(p.Message(), s); err != nil {
		return nil, err
	}
	return p.finish(p.env.with(s)), nil
}

// clone copies bytes; what is none stays something, so that the kind of a signature does not depend on its content.
func clone(b []byte) []byte { return append([]byte{}, b...) }

// sign has a signer make the signature.
func (p *Pending[T]) sign(ctx context.Context, signer Signer) (*T, error) {
	sig, err := signed(ctx, p.Message(), signer, p.key)
	if err != nil {
		return nil, err
	}
	return p.finish(p.env.with(signature{key: p.key.ID, sig: sig})), nil
}
