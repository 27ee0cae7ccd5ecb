#include "scenario.h"

namespace storm {

std::optional<Outage> ParseOutage(std::string_view name) {
  for (Outage outage : {Outage::kSlow, Outage::kError, Outage::kKill}) {
    if (name == OutageName(outage)) return outage;
  }
  return std::nullopt;
}

std::string_view OutageName(Outage outage) {
  switch (outage) {
    case Outage::kSlow:
      return "slow";
    case Outage::kError:
      return "error";
    case Outage::kKill:
      return "kill";
  }
  return "";
}

std::string_view Phases::NameAt(absl::Duration time) const {
  if (time < BlipStart()) return "healthy";
  if (time < TroubleStart()) return "blip";
  if (time < TroubleEnd()) return "trouble";
  return "recover";
}

Phases QuickPhases() {
  return {absl::Milliseconds(1000), absl::Milliseconds(600),
          absl::Milliseconds(1000), absl::Milliseconds(2000)};
}

}  // namespace storm
