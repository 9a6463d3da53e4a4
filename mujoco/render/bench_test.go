package render

import "testing"

// BenchmarkFrame draws 224 x 224 pixels of a small scene with shadows, reflection and
// four samples per pixel.
func BenchmarkFrame(b *testing.B) {
	m, d := scene(b)
	r := newRenderer(b, m, 224, 224)
	frame := make([]byte, r.Bytes())
	b.Logf("%+v", r.Info())
	for b.Loop() {
		must(b, r.Render(b.Context(), d, 0, frame))
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "frames/s")
}

// BenchmarkNew measures creating and closing a renderer.
func BenchmarkNew(b *testing.B) {
	m, _ := scene(b)
	for b.Loop() {
		r, err := New(m, 224, 224)
		must(b, err)
		r.Close()
	}
}
