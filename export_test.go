package counterfoil

// ForgeMessage makes a message of any payload: in tests the attacker has the keys.
func ForgeMessage(role Role, typ string, payload []byte) Message {
	return Message{role: role, pae: pae(payloadType(typ), payload)}
}
