package cpu

// OtherPairs has the path avx512bf16 multiply the other way (see Pairs) until the function it returns is called. No
// product may be packed meanwhile.
func OtherPairs() (restore func()) {
	comparePairs.Do(func() {}) // so that no device that starts meanwhile decides
	was := Pairs()
	usePairs(!was)
	return func() { usePairs(was) }
}
