package model

import "testing"

// Names of replacements survive parsing, and arms with one name the method whose search it is.
func TestReplacements(t *testing.T) {
	for _, name := range []string{"oracle-latent", "oracle-probe", "probe", "whiten", "topk=8"} {
		m, err := ParseMethod(name + "@scale")
		if err != nil {
			t.Fatal(err)
		}
		if m.Name != "scale" || m.Replaced.String() != name || m.Arm() != name+"@scale" || !m.Plans() || !m.Trained() {
			t.Errorf("%s@scale is %+v, in text %s", name, m, m.Arm())
		}
	}
	m, err := ParseMethod(OracleState)
	if err != nil || !m.Plans() || m.HasModel() || m.Arm() != OracleState || m.Replaced.Draws() || m.Replaced.OfLatents() {
		t.Errorf("%s is %+v, %v", OracleState, m, err)
	}
	for _, bad := range []string{"probe", "probe@", "topk@lewm", "topk=0@lewm", "topk=08@lewm", "topk=-1@lewm", "oracle-state@lewm", "probe@random", "probe@gcidm@lewm", "probe@whiten@lewm", "probe@oracle-state", "oracle@lewm", "lewm@probe"} {
		if m, err := ParseMethod(bad); err == nil {
			t.Errorf("%s is the method %+v, not an error", bad, m)
		}
	}
}
