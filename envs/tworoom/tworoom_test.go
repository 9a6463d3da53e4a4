package tworoom

import (
	"testing"

	"scalewm/envs/envtest"
)

func TestConformance(t *testing.T) { envtest.Run(t, "tworoom") }
