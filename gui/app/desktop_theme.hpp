// Whether the desktop wants light or dark: by its portal where it has one (asked in the background, and told of changes), else by the
// palette that the application began with. Qt 6.4 itself does not tell.
#pragma once

#include "gui/app/palettes.hpp"

#include <QObject>

#ifdef ORRERY_DBUS
#include <QDBusMessage>
#endif

namespace orrery {

class DesktopTheme : public QObject {
    Q_OBJECT
  public:
    explicit DesktopTheme(QObject* parent = nullptr); // before any theme is applied
    Theme theme() const { return theme_; }

  Q_SIGNALS:
    void changed();

#ifdef ORRERY_DBUS
  private Q_SLOTS:
    void settingChanged(const QDBusMessage& message); // a space, a key, a value

  private:
    void ask();
    void take(QVariant value);
#endif

  private:
    Theme theme_;
};

} // namespace orrery
