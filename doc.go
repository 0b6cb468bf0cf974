// Package counterfoil is the trust boundary between the proposer of a tool call and the tool itself.
//
// A plan arrives as bytes from a proposer that is not trusted. It becomes a value only by being parsed, and then
// moves through a chain of types, each of which is made by one function alone:
//
//	[]byte → *Plan → *DryRun → *Approval → *Authorization → *Claim → *Receipt
//
// Planning, dry run, approval and verification run no tool. [Execute] is the effect boundary: it authorizes, spends the
// approval's single use in a [Ledger] together with a durable start record, runs exactly one [Executor], and settles with
// a signed [Receipt]. A receipt, the approval that allowed it and all that they name travel as a bundle that
// [VerifyBundle] checks offline with public keys alone.
//
// # What it guarantees
//
// The invariants are numbered and cited in the code as INV-n:
//
//  1. Nothing unparsed is digested, shown, signed or executed; the bytes shown, hashed, signed and executed are the same.
//  2. Every cheap check precedes the first host call; the use is spent last.
//  3. No effect without a durable record of the spent use and of the start, in one atomic commit.
//  4. A use is spent at most once. An unknown outcome of that commit never leads to execution.
//  5. Every started execution ends in exactly one receipt: at once, or by recovery, as indeterminate.
//  6. An approval can narrow a plan, never widen it.
//  7. A receipt bundle can be verified offline, years later, with public keys alone.
//  8. Keys of one role never verify in another.
//  9. Free text, parameters, results and secrets never enter the audit log; a refusal is audited as well as a success. The
//     events of uses and receipts are made here; the host records its refusals, with [NewEvent].
//
// # What it trusts, and what it leaves out
//
// The host is trusted to supply the [Ledger], the [Executor], the keys and the time. The package does no I/O, reads no
// clock and holds no global state.
package counterfoil
