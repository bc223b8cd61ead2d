// Prometheus text. See metrics.hpp.
#include "client/metrics.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace parley::bench {

Metrics::Metrics(std::string_view page) {
  while (!page.empty()) {
    const std::size_t end = page.find('\n');
    std::string_view line = page.substr(0, end);
    page = end == std::string_view::npos ? std::string_view{} : page.substr(end + 1);
    if (line.empty() || line[0] == '#') continue;
    const std::size_t brace = line.find('{');
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos) continue;
    std::string name;
    std::string labels;
    std::string value;
    if (brace != std::string_view::npos && brace < space) {
      const std::size_t close = line.rfind('}');
      if (close == std::string_view::npos) continue;
      name = line.substr(0, brace);
      labels = line.substr(brace + 1, close - brace - 1);
      value = line.substr(close + 1);
    } else {
      name = line.substr(0, space);
      value = line.substr(space + 1);
    }
    samples_[name].push_back({labels, std::strtod(value.c_str(), nullptr)});
  }
}

std::optional<double> Metrics::sum(const std::string& name, const std::string& label) const {
  const auto at = samples_.find(name);
  if (at == samples_.end()) return std::nullopt;
  double total = 0;
  bool any = false;
  for (const auto& s : at->second) {
    if (!label.empty() && s.labels.find(label) == std::string::npos) continue;
    total += s.value;
    any = true;
  }
  return any ? std::optional(total) : std::nullopt;
}

std::optional<double> Metrics::max(const std::string& name) const {
  const auto at = samples_.find(name);
  if (at == samples_.end() || at->second.empty()) return std::nullopt;
  double most = at->second.front().value;
  for (const auto& s : at->second)
    most = std::max(most, s.value);
  return most;
}

std::map<std::string, double> Metrics::matching(const std::vector<std::string>& parts) const {
  std::map<std::string, double> out;
  for (const auto& [name, list] : samples_) {
    const bool all = std::all_of(parts.begin(), parts.end(), [&name = name](const auto& p) {
      return name.find(p) != std::string::npos;
    });
    if (!all) continue;
    for (const auto& s : list)
      out[s.labels.empty() ? name : name + "{" + s.labels + "}"] = s.value;
  }
  return out;
}

namespace {

// Takes the le label out of a label list; its value goes to `le`.
std::string without_le(const std::string& labels, std::string& le) {
  const std::size_t at = labels.find("le=\"");
  if (at == std::string::npos) return labels;
  const std::size_t close = labels.find('"', at + 4);
  le = labels.substr(at + 4, close - at - 4);
  std::string rest = labels.substr(0, at) + labels.substr(std::min(labels.size(), close + 1));
  while (!rest.empty() && rest.back() == ',')
    rest.pop_back();
  while (!rest.empty() && rest.front() == ',')
    rest.erase(0, 1);
  const std::size_t twice = rest.find(",,");
  if (twice != std::string::npos) rest.erase(twice, 1);
  return rest;
}

}  // namespace

std::vector<Metrics::Histogram> Metrics::histograms(const std::string& name,
                                                    const Metrics& before) const {
  std::map<std::string, std::map<double, double>> buckets;
  const auto add = [&](const Metrics& m, double sign) {
    const auto at = m.samples_.find(name + "_bucket");
    if (at == m.samples_.end()) return;
    for (const auto& s : at->second) {
      std::string le;
      const std::string labels = without_le(s.labels, le);
      buckets[labels][le == "+Inf" ? HUGE_VAL : std::strtod(le.c_str(), nullptr)] += sign * s.value;
    }
  };
  add(*this, 1);
  add(before, -1);
  std::vector<Histogram> out;
  for (const auto& [labels, list] : buckets) {
    Histogram h;
    h.labels = labels;
    h.buckets.assign(list.begin(), list.end());
    const auto exact = [&, &l = labels](const Metrics& m, const char* part) {
      const auto at = m.samples_.find(name + part);
      if (at == m.samples_.end()) return 0.0;
      for (const auto& s : at->second)
        if (s.labels == l) return s.value;
      return 0.0;
    };
    h.count = exact(*this, "_count") - exact(before, "_count");
    h.total = exact(*this, "_sum") - exact(before, "_sum");
    out.push_back(std::move(h));
  }
  return out;
}

double Metrics::Histogram::quantile(double q) const {
  if (count <= 0) return 0;
  const double rank = q * count;
  double low = 0;
  double below = 0;
  for (const auto& [bound, cumulative] : buckets) {
    if (cumulative >= rank) {
      if (std::isinf(bound)) return low;
      const double inside = cumulative - below;
      return inside > 0 ? low + (bound - low) * (rank - below) / inside : bound;
    }
    low = bound;
    below = cumulative;
  }
  return low;
}

std::vector<std::string> Metrics::histogram_names() const {
  std::vector<std::string> out;
  static const std::string suffix = "_bucket";
  for (const auto& [name, list] : samples_)
    if (name.size() > suffix.size() &&
        name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0)
      out.push_back(name.substr(0, name.size() - suffix.size()));
  return out;
}

std::optional<double> difference(const Metrics& before, const Metrics& after,
                                 const std::string& name, const std::string& label) {
  const auto b = after.sum(name, label);
  if (!b) return std::nullopt;
  return *b - before.sum(name, label).value_or(0);
}

}  // namespace parley::bench
