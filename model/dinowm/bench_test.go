package dinowm

import (
	"math/rand/v2"
	"testing"

	"scalewm/model/device"
	"scalewm/model/device/cpu"
)

// BenchmarkPlan measures the model's share of a plan by CEM at the published size:
// start and goal are encoded, then every iteration has a rollout and its costs. T5
// has 10 candidates and 3 iterations, T3 has 50 and 10. For T1 only one iteration, of
// 300 candidates, is run.
func BenchmarkPlan(b *testing.B) {
	for _, tier := range []struct {
		name                   string
		candidates, iterations int
	}{{"T5", 10, 3}, {"T3", 50, 10}, {"T1 once", 300, 1}} {
		for _, precision := range []device.Precision{device.FP32, device.BF16} {
			b.Run(tier.name+"/"+string(precision), func(b *testing.B) {
				dev, err := cpu.New(cpu.Options{Precision: precision})
				if err != nil {
					b.Fatal(err)
				}
				defer dev.Close()
				declared, err := paper().Random().Declare()
				if err != nil {
					b.Fatal(err)
				}
				m := declared.(*Model)
				m.Alloc(dev, false)
				m.Init(1)
				p, d := m.Info().Patches, m.Info().Dim
				frames, z := dev.AllocBytes(2*m.Info().FrameBytes()), device.NewMat(dev, 2*p, d)
				r := rand.New(rand.NewPCG(1, 2))
				candidates, costs := upload(dev, r, tier.candidates, 5*m.Cfg.ActionWidth()), device.NewMat(dev, 1, tier.candidates)
				end := device.NewMat(dev, tier.candidates*p, d)
				flop := m.Cfg.EncodeFLOP(2) + float64(tier.iterations)*m.Cfg.PlanFLOP(tier.candidates, 5)
				for b.Loop() {
					m.Encode(z, frames, 2)
					for range tier.iterations {
						m.Rollout(end, z.RowRange(0, p), candidates, 5)
						dev.LatentCost(costs, end, z.RowRange(p, p), true)
					}
					dev.Sync()
				}
				b.ReportMetric(flop*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
				if dev.Err() != nil {
					b.Fatal(dev.Err())
				}
			})
		}
	}
}
