// The plot: a self-contained SVG with two panels. See report.hpp.
#include <algorithm>
#include <array>
#include <cmath>

#include "report/report.hpp"

namespace parley::bench {

namespace {

constexpr double page_width = 960;
constexpr double panel_height = 300;
constexpr double left = 70;
constexpr double right = 24;
constexpr double inner = page_width - left - right;

struct Axis {
  double low = 0;
  double high = 1;
  bool log = false;
  std::vector<double> ticks;
  double at(double v) const {
    if (log)
      return (std::log10(std::max(v, low)) - std::log10(low)) /
             (std::log10(high) - std::log10(low));
    return (v - low) / (high - low);
  }
};

Axis linear(double high) {
  Axis a;
  high = high > 0 ? high : 1;
  const double raw = high / 5;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (const double m : {1.0, 2.0, 5.0})
    if (m * power >= raw) {
      step = m * power;
      break;
    }
  a.high = std::ceil(high / step) * step;
  for (double t = 0; t <= a.high + step / 2; t += step)
    a.ticks.push_back(t);
  return a;
}

Axis logarithmic(double low, double high) {
  Axis a;
  a.log = true;
  low = std::max(low, 0.01);
  high = std::max(high, low * 2);
  const double start = std::pow(10, std::floor(std::log10(low)));
  a.low = start;
  for (const double m : {2.0, 5.0})
    if (start * m <= low) a.low = start * m;
  a.high = high * 1.1;
  for (double decade = start; decade <= a.high; decade *= 10)
    for (const double m : {1.0, 2.0, 5.0})
      if (decade * m >= a.low && decade * m <= a.high) a.ticks.push_back(decade * m);
  return a;
}

std::string label(double v) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", v);
  return text.data();
}

std::string coordinate(double v) { return number(v, 1); }

std::string escape(const std::string& s) {
  std::string out;
  for (const char c : s) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else
      out.push_back(c);
  }
  return out;
}

std::string text(double x, double y, const std::string& words, const std::string& anchor,
                 const std::string& kind = "") {
  return "<text x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\" text-anchor=\"" + anchor +
         "\"" + (kind.empty() ? "" : " class=\"" + kind + "\"") + ">" + escape(words) + "</text>\n";
}

std::string frame(double top, const Axis& x, const Axis& y, const std::string& x_name,
                  const std::string& y_name) {
  std::string out;
  for (const double t : y.ticks) {
    const double at = top + panel_height * (1 - y.at(t));
    out += "<line class=\"grid\" x1=\"" + coordinate(left) + "\" x2=\"" + coordinate(left + inner) +
           "\" y1=\"" + coordinate(at) + "\" y2=\"" + coordinate(at) + "\"/>\n" +
           text(left - 8, at + 4, label(t), "end", "tick");
  }
  double last = -100;
  for (const double t : x.ticks) {
    const double at = left + inner * x.at(t);
    out += "<line class=\"grid\" x1=\"" + coordinate(at) + "\" x2=\"" + coordinate(at) +
           "\" y1=\"" + coordinate(top) + "\" y2=\"" + coordinate(top + panel_height) + "\"/>\n";
    if (at - last < 36) continue;  // a label that would touch its neighbour is left out
    out += text(at, top + panel_height + 18, label(t), "middle", "tick");
    last = at;
  }
  out += text(left, top - 10, y_name, "start", "name");
  out += text(left + inner, top + panel_height + 36, x_name, "end", "name");
  return out;
}

}  // namespace

std::string plot(const std::string& title, const std::vector<RunResult>& results) {
  // Colours that hold on white and on near-black alike.
  static constexpr std::array<const char*, 6> colours{"#2f7ed8", "#d9622b", "#2c9c5a",
                                                      "#a05ac8", "#b08a00", "#c2407a"};
  // The first run of each target, variant and temperature is drawn; the table has the medians.
  std::vector<const RunResult*> drawn;
  std::vector<std::string> names;
  for (const auto& r : results) {
    const std::string name = r.target + (r.variant == "base" ? "" : " [" + r.variant + "]") +
                             (r.cold ? ", cold" : ", warm");
    if (std::find(names.begin(), names.end(), name) != names.end() ||
        drawn.size() == colours.size())
      continue;
    names.push_back(name);
    drawn.push_back(&r);
  }
  double longest = 1;
  double most = 0;
  double least = 1e9;
  double lowest = 1e9;
  double worst = 0;
  for (const auto* r : drawn) {
    const Analysis& f = r->figures;
    if (!f.sent_at_s.empty())
      longest = std::max(longest, *std::max_element(f.sent_at_s.begin(), f.sent_at_s.end()));
    for (const double v : f.last_series)
      if (std::isfinite(v)) most = std::max(most, v);
    for (const double v : f.first_series)
      if (std::isfinite(v)) lowest = std::min(lowest, v);
    if (!f.sorted_all.empty()) {
      least = std::min(least, f.sorted_all.front());
      worst = std::max(worst, f.sorted_all.back());
    }
  }
  const double legend_top = 58;
  const double legend_row = 20;
  const double first_top = legend_top + legend_row * static_cast<double>(drawn.size()) + 34;
  const double second_top = first_top + panel_height + 88;
  const double height = second_top + panel_height + 56;
  std::string out =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + coordinate(page_width) + " " +
      coordinate(height) + "\" width=\"" + coordinate(page_width) + "\" height=\"" +
      coordinate(height) + "\" role=\"img\" aria-label=\"" + escape(title) +
      "\">\n<style>\n"
      "svg{font:13px system-ui,sans-serif;background:#ffffff}\n"
      "text{fill:#1c2128}.tick{fill:#57606a;font-size:11px}.name{fill:#1c2128;font-size:12px}\n"
      ".title{font-size:17px;font-weight:600}.grid{stroke:#d0d7de;stroke-width:1}\n"
      ".back{fill:#ffffff}.line{fill:none;stroke-width:1.6}.band{stroke:none;fill-opacity:.16}\n"
      "@media "
      "(prefers-color-scheme:dark){svg{background:#0d1117}.back{fill:#0d1117}text{fill:#e6edf3}"
      ".tick{fill:#9aa4b0}.name{fill:#e6edf3}.grid{stroke:#30363d}}\n</style>\n"
      "<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n";
  out += text(left, 30, title, "start", "title");
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const double y = legend_top + legend_row * static_cast<double>(i);
    out += "<rect x=\"" + coordinate(left) + "\" y=\"" + coordinate(y - 10) +
           "\" width=\"14\" height=\"12\" fill=\"" + std::string(colours[i]) + "\"/>\n";
    const Analysis& f = drawn[i]->figures;
    out +=
        text(left + 22, y,
             names[i] + ": p50 " + number(f.all.p50) + ", p95 " + number(f.all.p95) + ", max " +
                 number(f.all.max) + " ms, " + std::to_string(f.received) + " of " +
                 std::to_string(f.expected) + " deliveries" +
                 (f.instrument_bound ? " (instrument-bound)" : "") +
                 (drawn[i]->no_result.empty() ? "" : " (no result: " + drawn[i]->no_result + ")"),
             "start");
  }
  const Axis time = linear(longest);
  const Axis latency = logarithmic(lowest, most);
  out += frame(first_top, time, latency, "seconds since the first send",
               "ms from send to receipt, logarithmic: line = the sender's echo, band = first to "
               "last receiver");
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const Analysis& f = drawn[i]->figures;
    std::string line;
    std::string up;
    std::vector<std::string> down;
    for (std::size_t m = 0; m < f.sent_at_s.size(); ++m) {
      const double x = left + inner * time.at(f.sent_at_s[m]);
      const auto y = [&](double v) {
        return first_top +
               panel_height * (1 - latency.at(std::clamp(v, latency.low, latency.high)));
      };
      if (std::isfinite(f.echo_series[m]))
        line += coordinate(x) + "," + coordinate(y(f.echo_series[m])) + " ";
      if (std::isfinite(f.first_series[m]) && std::isfinite(f.last_series[m])) {
        up += coordinate(x) + "," + coordinate(y(f.last_series[m])) + " ";
        down.push_back(coordinate(x) + "," + coordinate(y(f.first_series[m])) + " ");
      }
    }
    std::string band = up;
    for (auto at = down.rbegin(); at != down.rend(); ++at)
      band += *at;
    out += "<polygon class=\"band\" fill=\"" + std::string(colours[i]) + "\" points=\"" + band +
           "\"/>\n";
    out += "<polyline class=\"line\" stroke=\"" + std::string(colours[i]) + "\" points=\"" + line +
           "\"/>\n";
  }
  const Axis spread = logarithmic(least, worst);
  Axis share;
  share.high = 100;
  share.ticks = {0, 25, 50, 75, 95, 100};
  out += frame(second_top, spread, share, "ms, logarithmic",
               "% of all expected deliveries received within");
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const Analysis& f = drawn[i]->figures;
    const auto n = static_cast<double>(f.all.count);
    std::string line;
    const std::size_t step = std::max<std::size_t>(1, f.sorted_all.size() / 600);
    for (std::size_t k = 0; k < f.sorted_all.size(); k += step) {
      const double x = left + inner * spread.at(f.sorted_all[k]);
      const double y = second_top + panel_height * (1 - static_cast<double>(k + 1) / n);
      line += coordinate(x) + "," + coordinate(y) + " ";
    }
    if (!f.sorted_all.empty())
      line += coordinate(left + inner * spread.at(f.sorted_all.back())) + "," +
              coordinate(second_top +
                         panel_height * (1 - static_cast<double>(f.sorted_all.size()) / n));
    out += "<polyline class=\"line\" stroke=\"" + std::string(colours[i]) + "\" points=\"" + line +
           "\"/>\n";
  }
  return out + "</svg>\n";
}

}  // namespace parley::bench
