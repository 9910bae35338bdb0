// Light and dark on the Fusion style, as the desktop wants it unless the user says otherwise; switched while the program runs.
#pragma once

#include <QObject>
#include <QPalette>
#include <QString>

#include <optional>

namespace orrery {

class DesktopTheme;
enum class Theme { light, dark };

QPalette palette_of(Theme theme);
void apply_theme(Theme theme); // to the whole application

// The user's choice: "system", "light" or "dark".
class ThemeChoice : public QObject {
    Q_OBJECT
  public:
    // remember: in the settings, from where it comes at the next start. given: for this time only.
    ThemeChoice(bool remember, const QString& given, QObject* parent = nullptr);
    static QStringList names();
    const QString& name() const { return name_; }
    Theme shown() const;
    void choose(const QString& name);
    void toggle(); // to the other one than is shown

  Q_SIGNALS:
    void changed();

  private:
    void apply();
    bool remember_;
    QString name_;
    DesktopTheme* desktop_;
    std::optional<Theme> applied_;
};

} // namespace orrery
