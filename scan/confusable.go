package scan

// confusables maps characters that look like a Latin letter to that letter. It holds the ones that attacks use and that
// compatibility decomposition leaves alone; words of the rules pass through the same map, so that Russian or Greek words
// still match themselves.
func confusables() map[rune]byte {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	m := make(map[rune]byte, 512)
	for i, alike := range [26]string{
		"аАαΑɑᴀӑɐ⍺ꭺ𐊠Ꭺ",   // a
		"ВвЬьΒβᏴʙᖯ",      // b
		"сСϲϹᴄⲥⲤↄɔᏟ",     // c
		"ԁᴅᏧᎠժԀɖ",        // d
		"еЕεΕєЄᴇҽǝэℯⲉⲈᎬ", // e
		"ꜰƒϝϜքɟꞙ",        // f
		"ɡցɢԍԌᏀƃǥ",       // g
		"һҺНнΗհʜᎻⲎɥ",     // h
		"іІιΙıɩɪӏӀᎥⲓⲒίɨ", // i
		"јЈϳᴊᎫյɈɉ",       // j
		"кКκΚᴋⲔⲕᏦʞҡ",     // k
		"ʟⅼᏞⳑլɭłŁ",       // l
		"мМΜᴍⲘⲙᎷɯ",       // m
		"ոΝⲚɴпηռɳ",       // n
		"оОοΟօᴏⲟⲞσჿഠøØө", // o
		"рРρΡᴘⲣⲢᏢþ",      // p
		"ԛԚզգǫɋ",         // q
		"гᴦɹʀᖇᎡꭇⲅɾ",      // r
		"ѕЅꜱᏕՏʂ",         // s
		"тТτΤᴛⲦⲧᎢʇŧŦ",    // t
		"υսᴜцʋմᑌ",        // u
		"νѵѴᴠᏙʌⱱ",        // v
		"ԝԜᴡωшաᎳʍ",       // w
		"хХχΧⲭⲬ",         // x
		"уУγΥүҮʏყʎⲨᎽ",    // y
		"ΖᴢᏃⲌʐ",          // z
	} {
		for _, r := range alike {
			m[r] = letters[i]
		}
	}
	for i, c := range []byte(letters) {
		n := rune(i)
		m[0x1F150+n] = c // white on black circles
		m[0x1F170+n] = c // white on black squares
		m[0x1F1E6+n] = c // regional indicators
	}
	return m
}
