package pusht

import (
	"testing"

	"scalewm/envs/envtest"
)

func TestConformance(t *testing.T) { envtest.Run(t, "pusht") }
